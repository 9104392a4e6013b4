"""The tables of docs/evidence.md: unglow next to other tools on the same pairs."""
