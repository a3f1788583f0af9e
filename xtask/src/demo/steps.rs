//! What the demo does now, how much of it there is, and how long it takes.

use std::time::Instant;

use crate::shell::say;

/// Steps of a run. Each says what is expected of it on two cores, and then how long it took.
#[derive(Debug)]
pub(super) struct Steps {
    all: &'static [(&'static str, &'static str)],
    done: usize,
    began: Instant,
}

impl Steps {
    /// Names, and how long each usually takes.
    pub(super) fn new(all: &'static [(&'static str, &'static str)]) -> Self {
        Self { all, done: 0, began: Instant::now() }
    }

    /// Begins the next one.
    pub(super) fn next(&mut self) {
        self.end();
        if let Some(headline) = self.headline() {
            say(&headline);
        }
        self.done += 1;
        self.began = Instant::now();
    }

    /// Ends the last one.
    pub(super) fn end(&self) {
        if self.done > 0 {
            println!("    {:.0} s", self.began.elapsed().as_secs_f32());
        }
    }

    fn headline(&self) -> Option<String> {
        let (name, usually) = self.all.get(self.done)?;
        Some(format!("[{}/{}] {name} (usually {usually})", self.done + 1, self.all.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_says_which_of_how_many_it_is() {
        let mut steps = Steps::new(&[("a", "1 s"), ("b", "2 min")]);
        assert_eq!(steps.headline().as_deref(), Some("[1/2] a (usually 1 s)"));
        steps.next();
        assert_eq!(steps.headline().as_deref(), Some("[2/2] b (usually 2 min)"));
        steps.next();
        assert_eq!(steps.headline(), None);
    }
}
