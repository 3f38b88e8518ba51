//! Types that are read from objects of another type's kind.

/// Gives a type with a field `metadata`, or the field that is named, the kind of `$kind`, for
/// watches and lists.
macro_rules! of_kind {
    (@impl [$($bound:tt)*] $wire:ty, $kind:ty, $($field:ident).+, $alone:expr) => {
        impl<$($bound)*> ::kube_core::Resource for $wire {
            type DynamicType = <$kind as ::kube_core::Resource>::DynamicType;
            type Scope = <$kind as ::kube_core::Resource>::Scope;

            fn metadata_api() -> bool {
                $alone
            }

            fn kind(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube_core::Resource>::kind(dynamic)
            }

            fn group(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube_core::Resource>::group(dynamic)
            }

            fn version(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube_core::Resource>::version(dynamic)
            }

            fn api_version(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube_core::Resource>::api_version(dynamic)
            }

            fn plural(dynamic: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube_core::Resource>::plural(dynamic)
            }

            fn meta(&self) -> &::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.$($field).+
            }

            fn meta_mut(
                &mut self,
            ) -> &mut ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.$($field).+
            }
        }
    };
    (<$k:ident> $wire:ty) => {
        of_kind!(@impl [$k: ::kube_core::Resource] $wire, $k, metadata, $k::metadata_api());
    };
    ($wire:ty, $kind:ty) => {
        of_kind!(@impl [] $wire, $kind, metadata, false);
    };
    ($wire:ty, $kind:ty, $field:ident) => {
        of_kind!(@impl [] $wire, $kind, $field.metadata, false);
    };
}
