//! How much an event costs, counted: a machine may be slow, a count is what it is.

/// What one event made the graph look at. Equal events cost equal work in graphs of any size, as long as they touch as
/// many paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Objects whose nodes and edges were worked out.
    pub linked: usize,
    /// Policies that were read, looked up, or held against others at their level.
    pub weighed: usize,
    /// Steps in the hierarchy: stacks that moved over an edge, stacks and nodes that were looked through.
    pub moved: usize,
    /// Stacks that were summed up for the objects whose policies were scored.
    pub scored: usize,
}

impl Work {
    /// All of it as one number.
    pub fn total(self) -> usize {
        let Self {
            linked,
            weighed,
            moved,
            scored,
        } = self;
        linked + weighed + moved + scored
    }
}
