"""Lists of pairs with spoilt places and faults, against the truth of phantoms, by the workflow."""
