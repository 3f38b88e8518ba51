//! In which queue of the API server a request of the installation waits (API priority and
//! fairness).

use http::{Method, Request};
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use kube::Api;
use kube::client::Body;

use super::installation::Installation;
use crate::world::World;

impl Installation {
    /// However many writes of pods are under way, the Lease does not wait behind them: it has a
    /// priority level of its own.
    pub async fn lease_waits_for_no_other_request(&self, world: &World) {
        let client = &world.client;
        let schema = format!("{}-swaplet-lease", self.namespace);
        let schema = Api::<FlowSchema>::all(client.clone())
            .get(&schema)
            .await
            .unwrap()
            .metadata
            .uid
            .unwrap();
        let level = Api::<PriorityLevelConfiguration>::all(client.clone())
            .get("leader-election")
            .await
            .unwrap()
            .metadata
            .uid
            .unwrap();
        let own = (schema, level);
        let leases = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
            self.namespace
        );
        let lease = format!("{leases}/swaplet");
        for (method, path) in [
            (Method::GET, &lease),
            (Method::PATCH, &lease),
            (Method::POST, &leases),
        ] {
            assert_eq!(
                self.queue_of(world, method.clone(), path).await,
                own,
                "{method} {path}"
            );
        }
        let pods = format!("/api/v1/namespaces/{}/pods", world.namespace);
        let events = format!("/api/v1/namespaces/{}/events", world.namespace);
        for (method, path) in [
            (Method::GET, &pods),
            (Method::PATCH, &format!("{pods}/any")),
            (Method::POST, &events),
        ] {
            let (schema, level) = self.queue_of(world, method.clone(), path).await;
            assert!(schema != own.0 && level != own.1, "{method} {path}");
        }
    }

    /// The uids of the FlowSchema that a request of the controller's account falls under, and of
    /// its priority level. A dry run: whether the request is any good does not matter.
    async fn queue_of(&self, world: &World, method: Method, path: &str) -> (String, String) {
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?dryRun=All"))
            .header("Impersonate-User", self.account())
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(b"{}".to_vec()))
            .unwrap();
        let answer = world.client.send(request).await.unwrap();
        let uid = |header: &str| answer.headers()[header].to_str().unwrap().to_owned();
        (
            uid("x-kubernetes-pf-flowschema-uid"),
            uid("x-kubernetes-pf-prioritylevel-uid"),
        )
    }
}
