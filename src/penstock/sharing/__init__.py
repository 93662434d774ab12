"""What standing queries share: an eddy and grouped filters a stream, SteMs for all joins (Madden et al. 2002)."""
