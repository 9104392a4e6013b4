"""How exact, how robust and how costly registration is, on pairs whose truth is known."""
