"""Pictures that textbooks print, computed anew: one file a topic, and the registry."""
