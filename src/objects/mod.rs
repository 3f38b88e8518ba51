//! Kubernetes objects as swaplet reads them: only the fields that decisions use, and tolerant of everything else.
