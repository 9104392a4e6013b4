"""What every package stands on: windows, whole files, compiled loops, errors, progress, memory."""
