"""Any pixel of any stage of a pair, in a browser: what a page asks for, from finished results."""
