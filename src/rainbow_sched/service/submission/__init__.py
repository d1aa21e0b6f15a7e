"""From a submitted job to a stored one, many in one write."""
