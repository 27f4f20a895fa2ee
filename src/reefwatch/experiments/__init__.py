"""Active measurements; each makes a Record."""
