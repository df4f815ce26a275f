"""What one forward pass does on the device, against what this device can do.

`launches` and `counters.forward` run in the candidate's process: what they return is a claim, capped and
checked by `assemble` in the judge. `roofline` and `cost` run in trusted processes only.
"""
