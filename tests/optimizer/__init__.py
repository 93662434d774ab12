"""Every rewriting keeps the very changes: plans as written beside plans as rewritten, over the same rows."""
