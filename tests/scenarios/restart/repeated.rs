//! Requests one after another, on a kubelet that keeps a back-off for each name of an image.

use serde_json::json;

use super::world::{APP, Restarts, app, pinned, pod};

#[tokio::test(start_paused = true)]
async fn l1_twenty_requests_in_a_row_lose_nothing_under_every_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut object = pod(policy);
        // It ends well when it is stopped, so under OnFailure nothing starts it again.
        object["spec"]["containers"][0]["args"] = json!(["run=forever", "term=0"]);
        let world = Restarts::on(swaplet_testbed::virtual_node::Profile::kubelet(), &object).await;
        let _life = world.start_controller();
        for number in 1..=20 {
            let name = format!("r{number}");
            world.request(&name, &app()).await;
            world.wait(5).await;
            let states = json!([{"name": "app", "phase": "Succeeded", "isKilled": true}]);
            assert_eq!(
                (
                    &world.get(&name)["status"]["containerRecreateStates"],
                    world.restarts("app")
                ),
                (&states, number),
                "{policy} {number}"
            );
        }
        assert_eq!(world.original("app"), pinned(APP));
        assert_eq!(world.restarts("log"), 0);
        world.assert_quiet().await;
    }
}
