"""Names of floating-point dtypes in the record (docs/record.md), by width."""

HIGH = ("f32", "f64")
HALF = ("bf16", "f16")
LOW = (*HALF, "f8e4m3", "f8e5m2")
FLOATS = ("f64", "f32", *LOW)
