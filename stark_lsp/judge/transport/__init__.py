"""What crosses between the judge and its children: values, tensors, shared memory."""
