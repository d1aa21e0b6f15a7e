"""The calls of `rainbow.v2.Jobs`: their RPCs, values, messages and methods."""
