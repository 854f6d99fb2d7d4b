//! The contract of every backend, on the fake. Its commands are programs of the fake, since it has no shell by default.

mod subject;

thread_local! {
    // All backends of a row are of one provider; each row has a thread of its own.
    static FAKE: sandbox_fake::Fake = subject::fake();
}

sandbox_contract::contract_suite!(subject::subject(FAKE.with(sandbox_fake::Fake::clone), |fake| fake));
