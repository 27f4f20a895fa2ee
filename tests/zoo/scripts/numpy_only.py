import sys

import numpy

numpy.random.seed(0)
w = numpy.zeros(4)
for step in range(20):
    x = numpy.random.randn(8, 4)
    w -= 0.1 * x.T @ (x @ w - x.sum(1)) / 8
    print(step, float(w.sum()).hex())
print("torch" in sys.modules)
