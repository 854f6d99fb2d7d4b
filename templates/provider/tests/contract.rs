//! Every row of the contract.

use sandbox_contract::{Probes, Subject};
use sandbox_core::{NetworkPolicy, Spec};
use sandbox_yours::Yours;
use std::future::ready;

fn subject() -> Subject {
    let yours = Yours::new();
    let provider = yours.clone();
    // Asks the provider, past the adapter, whether a row has left something behind.
    let probes = Probes::new().count(move |_labels| ready(Ok(provider.count())));
    // Without `DENY` even the default is refused, so the suite says that it wants no more than an open network.
    Subject::new(yours).spec(Spec::new().image("default").network(NetworkPolicy::Open)).probes(probes)
}

sandbox_contract::contract_suite!(subject());
