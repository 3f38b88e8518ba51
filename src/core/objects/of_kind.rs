//! Types that are read from objects of another type's kind.

/// Gives a type with a field `metadata` the kind of `$kind`, for watches and lists.
macro_rules! of_kind {
    ($wire:ty, $kind:ty) => {
        impl ::kube_core::Resource for $wire {
            type DynamicType = <$kind as ::kube_core::Resource>::DynamicType;
            type Scope = <$kind as ::kube_core::Resource>::Scope;

            fn kind(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube_core::Resource>::kind(dynamic)
            }

            fn group(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube_core::Resource>::group(dynamic)
            }

            fn version(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube_core::Resource>::version(dynamic)
            }

            fn plural(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube_core::Resource>::plural(dynamic)
            }

            fn meta(&self) -> &::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(
                &mut self,
            ) -> &mut ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
