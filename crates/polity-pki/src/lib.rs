//! Our certificate authorities, the leaves they sign, their rotation, and the checks of both.
