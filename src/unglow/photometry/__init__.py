"""Photometry: how much brighter post is than pre, from statistics streamed over aligned pixels."""
