"""Plugin point: where cluster graphs live and how requests are matched against them."""
