"""What every call passes before its handler: size, credential, policy row, rate, deadline."""
