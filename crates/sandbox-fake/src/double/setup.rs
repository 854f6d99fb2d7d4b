//! How a test sets its double up, and looks at what was asked of it.

use super::{Call, Credential, Done, Number, Operation, Reply, Rule, RunCall, Trouble, What, on};
use crate::{
    Fake, On, VirtualClock, World,
    world::{Kernel, Pace, lock},
};
use sandbox_core::{Capability, Clock, Error, Isolation};
use std::{future::pending, sync::Arc};

impl Fake {
    /// Scripts commands: those that `on` is for do what the reply says, in place of a program. Rules are asked in the order in
    /// which they were added; the first that is for the command and not used up replies. Where none does, the fake's own
    /// programs run, unless it is [`strict`](Self::strict).
    pub fn on_run(self, on: impl Into<On>, reply: impl Into<Reply>) -> Self {
        self.world().on_run(on, reply);
        self
    }

    /// A command that no rule is for is an `unexpected-call`, also where there is a program for it.
    pub fn strict(self) -> Self {
        lock(&self.kernel().double).strict = true;
        self
    }

    /// Adds trouble. Where several are due at the same step, the first comes.
    pub fn trouble(self, trouble: Trouble) -> Self {
        self.world().trouble(trouble);
        self
    }

    /// Sets the dice of [`Trouble::chance`]. With the same seed and the same calls one after the other, the same calls fail.
    pub fn seed(self, seed: u64) -> Self {
        lock(&self.kernel().double).troubles.seed(seed);
        self
    }

    /// Pretends that the provider needs a credential, in the variable `FAKE_API_KEY`, and that this one was given. The variable
    /// itself is never read.
    pub fn credential(self, credential: Credential) -> Self {
        lock(&self.kernel().double).credential = Some(credential);
        self
    }

    /// States another isolation tier than `none`. Nothing is isolated by that.
    pub fn isolation(self, tier: Isolation) -> Self {
        lock(&self.kernel().double).isolation = Some(tier);
        self
    }

    /// Takes a capability away, as a provider might lack it, for this reason. For clients made from now on.
    pub fn absent(self, capability: Capability, why: impl Into<String>) -> Self {
        lock(&self.kernel().double).absent.push((capability, why.into()));
        self.kernel().with(|state, _| state.absent.insert(capability));
        self
    }

    /// Time passes as it really does. For a fake behind a server, or under somebody who thinks before he types.
    pub fn real_time(self) -> Self {
        self.kernel().set_pace(Pace::Real);
        self
    }

    /// Time stands still but for [`VirtualClock::advance`].
    pub fn manual_time(self) -> Self {
        self.kernel().set_pace(Pace::Manual);
        self
    }
}

impl World {
    /// See [`Fake::on_run`].
    pub fn on_run(&self, on: impl Into<On>, reply: impl Into<Reply>) {
        let rule = Arc::new(Rule::new(on.into(), reply.into()));
        lock(&self.kernel().double).rules.push(rule);
    }

    /// See [`Fake::trouble`].
    pub fn trouble(&self, trouble: Trouble) {
        lock(&self.kernel().double).troubles.add(trouble);
    }

    /// Takes all trouble away.
    pub fn no_trouble(&self) {
        lock(&self.kernel().double).troubles.clear();
    }

    /// What was asked of the fake, in order, the last ten thousand: what [`Call`] has variants for, also where it was refused.
    ///
    /// Not recorded are probes, steps of definitions, reaching a command again, pause, resume, stop, restart, extend, the network, ports, and what is
    /// done with a command that runs, but for its input; nor a command for a sandbox that is gone, paused or stopped. What is
    /// wrong before anything is sent never gets to a backend.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.kernel().double).calls.all()
    }

    /// The commands of [`calls`](Self::calls), in order.
    pub fn runs(&self) -> Vec<RunCall> {
        let runs = self.calls().into_iter().filter_map(|call| match call {
            Call::Run(call) => Some(call),
            _ => None,
        });
        runs.collect()
    }

    /// The command lines of [`runs`](Self::runs), in order.
    pub fn argvs(&self) -> Vec<Vec<String>> {
        self.runs().into_iter().map(|call| call.argv).collect()
    }

    /// Forgets what was asked so far.
    pub fn forget_calls(&self) {
        lock(&self.kernel().double).calls.forget();
    }

    /// The rules with a number of times that were not used so often, in words; empty where all were.
    pub fn unmet(&self) -> Vec<String> {
        let rules = lock(&self.kernel().double).rules.clone();
        rules.iter().filter_map(|rule| rule.unmet()).collect()
    }
}

impl Kernel {
    /// What the test wants to go wrong here.
    pub(crate) async fn trouble(self: &Arc<Self>, operation: Operation, step: usize) -> Result<(), Error> {
        let what = lock(&self.double).troubles.take(operation, step);
        match what {
            None => Ok(()),
            Some(What::Fail(error)) => Err(error),
            Some(What::Hang) => pending().await,
            Some(What::Slow(time)) => {
                VirtualClock::new(self).sleep(time).await;
                Ok(())
            }
        }
    }

    /// The scripted reply to a command; `None` where a program of the fake's runs.
    pub(crate) fn scripted(&self, call: &RunCall) -> Result<Option<Done>, Error> {
        let (rules, strict) = {
            let double = lock(&self.double);
            (double.rules.clone(), double.strict)
        };
        match rules.iter().find_map(|rule| rule.take(call)) {
            Some(reply) => Ok(Some(reply.decide(call))),
            None if strict => Err(on::unexpected(call, &rules)),
            None => Ok(None),
        }
    }

    /// Notes with what a call was answered, where that is an error.
    pub(crate) fn answered<T>(&self, number: Number, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &answer {
            lock(&self.double).calls.answered(number, error);
        }
        answer
    }
}
