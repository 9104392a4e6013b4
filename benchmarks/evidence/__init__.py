"""The tables of docs/evidence.md: unglow beside other tools on the same pairs."""
