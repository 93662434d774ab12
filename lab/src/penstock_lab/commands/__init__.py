"""What `penstock bench` and `penstock figure` do."""
