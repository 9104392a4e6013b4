"""What people look at: figures, pages, the terminal, the summary."""
