"""Phase correlation of blocks, and where to put them."""
