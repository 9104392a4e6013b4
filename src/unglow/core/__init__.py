"""What every package uses: windows, complete files, compiled loops, errors, progress, memory."""
