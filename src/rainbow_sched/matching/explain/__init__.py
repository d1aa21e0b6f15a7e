"""Reasons why a request does not fit, and the smallest changes that would make it fit."""
