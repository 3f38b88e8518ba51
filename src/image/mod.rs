//! Image references, and the exit and park images: built, named and pushed without a container engine.
