"""The papers' experiments: model beside simulation, and later beside the live system."""
