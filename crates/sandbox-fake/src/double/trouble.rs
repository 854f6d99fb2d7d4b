//! Failures on demand.

use super::failure;
use sandbox_core::Error;
use std::time::Duration;

/// What goes wrong with an operation of a fake. See [`Fake::trouble`](crate::Fake::trouble).
///
/// Unless something else is said: `unavailable`, at the first step, once.
#[derive(Debug, Clone)]
pub struct Trouble {
    on: Operation,
    step: usize,
    what: What,
    left: usize,
    chance: Option<f64>,
}

/// An operation of a backend. Each has steps, as a provider would have requests; trouble comes right before the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Asking what can be had; one step.
    Probe,
    /// Making a sandbox; four steps: look up the image, make the sandbox, start it (it is there, and may be left behind),
    /// answer.
    Create,
    /// Copying one; three steps: make the copy, start it (it is there, and may be left behind), answer.
    Fork,
    /// Ending one; two steps: end it, answer.
    Destroy,
    /// Reaching one; one step.
    Attach,
    /// Enumerating; one step.
    List,
    /// Making a snapshot; two steps: make it, answer (it is there).
    Snapshot,
    /// Deleting one; two steps: delete it, answer.
    DeleteSnapshot,
    /// Enumerating them; one step.
    ListSnapshots,
    /// Building an image; two steps: find or build it, answer (it is there).
    Build,
    /// Starting a command; two steps: start it, answer (it runs).
    Run,
    /// Any operation on files, and the start of a watch; one step.
    Files,
}

impl Operation {
    /// How many steps it has.
    pub const fn steps(self) -> usize {
        match self {
            Self::Create => 4,
            Self::Fork => 3,
            Self::Destroy | Self::Run | Self::Build | Self::Snapshot | Self::DeleteSnapshot => 2,
            Self::Probe | Self::Attach | Self::List | Self::ListSnapshots | Self::Files => 1,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Fail(Error),
    Hang,
    Slow(Duration),
}

impl Trouble {
    /// Trouble with an operation.
    pub fn on(operation: Operation) -> Self {
        Self { on: operation, step: 1, what: What::Fail(failure::unavailable()), left: 1, chance: None }
    }

    /// It fails with this error; see [`failure`] for the usual ones.
    pub fn fail(mut self, error: Error) -> Self {
        self.what = What::Fail(error);
        self
    }

    /// It never answers.
    pub fn hang(mut self) -> Self {
        self.what = What::Hang;
        self
    }

    /// It takes so much longer, by the fake's clock.
    pub fn slow(mut self, time: Duration) -> Self {
        self.what = What::Slow(time);
        self
    }

    /// Right before which step, counted from 1; see [`Operation`]. One that there is not never comes.
    pub fn step(mut self, step: usize) -> Self {
        self.step = step;
        self
    }

    /// So many times.
    pub fn times(mut self, times: usize) -> Self {
        self.left = times;
        self
    }

    /// Every time.
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// Every time with this chance, from 0 to 1, by the dice of [`Fake::seed`](crate::Fake::seed).
    pub fn chance(mut self, chance: f64) -> Self {
        self.chance = Some(chance);
        self.always()
    }
}

/// Those of a world.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    all: Vec<Trouble>,
    dice: u64,
}

impl Troubles {
    pub(crate) fn add(&mut self, trouble: Trouble) {
        self.all.push(trouble);
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    pub(crate) fn seed(&mut self, seed: u64) {
        self.dice = seed;
    }

    pub(crate) fn take(&mut self, operation: Operation, step: usize) -> Option<What> {
        let Self { all, dice } = self;
        let due = all.iter_mut().find(|trouble| {
            let here = trouble.on == operation && trouble.step == step && trouble.left > 0;
            here && trouble.chance.is_none_or(|chance| throw(dice) < chance)
        })?;
        due.left = due.left.saturating_sub(usize::from(due.left < usize::MAX));
        Some(due.what.clone())
    }
}

/// A number from 0 to 1, by the generator that is called SplitMix64.
fn throw(dice: &mut u64) -> f64 {
    *dice = dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *dice;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_are_fair_and_the_same_for_a_seed() {
        let throws = |seed| {
            let mut dice = seed;
            (0..1000).map(|_| throw(&mut dice)).collect::<Vec<_>>()
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));
        let low = throws(7).into_iter().filter(|throw| *throw < 0.25).count();
        assert!((200..300).contains(&low), "{low}");
    }
}
