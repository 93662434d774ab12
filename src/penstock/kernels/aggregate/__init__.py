"""Running values of groups over sliding windows."""
