"""What torch.compile makes of a module, emitted as a candidate that needs a compiler and public PyTorch alone.

`reader`    Inductor's program as kernels and steps
`cpp`       its kernels as one C++ file
`emit`      the candidate
`backward`  its gradients, where it is optimized in training mode
`proposal`  the plan that goes with it
"""
