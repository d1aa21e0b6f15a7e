"""The calls of `rainbow.v2.Clusters` and `Agents`: their RPCs, values, messages and methods."""
