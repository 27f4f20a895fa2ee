"""What in a CUDA code base has to be looked at before it runs on ROCm.

PyTorch's ROCm build answers to `torch.cuda` and "cuda", and hipify translates most CUDA sources, so
plain use of them is nothing to look at. Found is what breaks, or means something else, there; what
stands behind a test for ROCm, or an import that may fail, has been looked at already.
"""
