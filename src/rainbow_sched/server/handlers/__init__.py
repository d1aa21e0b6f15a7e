"""The gRPC services: translate, delegate, translate back."""
