"""The calls of `rainbow.v2.Access`: their RPCs, values, messages and methods."""
