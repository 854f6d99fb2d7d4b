//! The contract of every backend, on the fake. Its commands are programs of the fake, since it has no shell by default.

mod subject;

sandbox_contract::contract_suite!(subject::subject(subject::fake(), |fake| fake));
