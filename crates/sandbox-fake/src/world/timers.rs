//! The virtual time and what waits for it.

use std::{collections::BTreeMap, task::Waker, time::Duration};

/// What names a timer: when it fires, and a number.
pub(crate) type Key = (Duration, u64);

/// What waits for a time.
#[derive(Debug)]
pub(crate) enum Timer {
    /// A program that sleeps.
    Sleep(Waker),
    /// Somebody outside who asked the backend's clock.
    Outside(Option<Waker>),
    /// The deadline of a command: sandbox, command.
    Deadline(u64, u64),
    /// When TERM is sent before that.
    Term(u64, u64),
    /// The next word of a service on this connection.
    Talk(u64),
    /// The end of a sandbox. Time does not move for its sake.
    Lifetime(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    now: Duration,
    number: u64,
    /// Those that time moves for.
    moving: BTreeMap<Key, Timer>,
    lifetimes: BTreeMap<Key, Timer>,
}

impl Timers {
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// A time so far away that it never comes is a time all the same.
    pub(crate) fn set(&mut self, after: Duration, timer: Timer) -> Key {
        self.number += 1;
        let key = (self.now.saturating_add(after).min(Duration::from_nanos(u64::MAX)), self.number);
        match timer {
            Timer::Lifetime(_) => self.lifetimes.insert(key, timer),
            _ => self.moving.insert(key, timer),
        };
        key
    }

    pub(crate) fn cancel(&mut self, key: &Key) {
        if self.moving.remove(key).is_none() {
            self.lifetimes.remove(key);
        }
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut Timer> {
        self.moving.get_mut(key)
    }

    /// The next time that time moves for: when, and whether it is a program's own sleep.
    pub(crate) fn next(&self) -> Option<(Key, bool)> {
        self.moving.first_key_value().map(|(key, timer)| (*key, matches!(timer, Timer::Sleep(_))))
    }

    /// The next time at which anything happens, lifetimes included.
    pub(crate) fn first(&self) -> Option<Duration> {
        let first = |timers: &BTreeMap<Key, Timer>| timers.first_key_value().map(|(key, _)| key.0);
        [first(&self.moving), first(&self.lifetimes)].into_iter().flatten().min()
    }

    /// Takes the next timer that is due by `until`, and makes it that late.
    pub(crate) fn pop(&mut self, until: Duration) -> Option<Timer> {
        let first = |timers: &BTreeMap<Key, Timer>| timers.first_key_value().map(|(key, _)| *key);
        let (moving, lifetime) = (first(&self.moving), first(&self.lifetimes));
        let key = [moving, lifetime].into_iter().flatten().min().filter(|key| key.0 <= until)?;
        self.now = self.now.max(key.0);
        if moving == Some(key) { self.moving.remove(&key) } else { self.lifetimes.remove(&key) }
    }

    /// Makes it that late; nothing is due before.
    pub(crate) fn advance(&mut self, to: Duration) {
        self.now = self.now.max(to);
    }
}
