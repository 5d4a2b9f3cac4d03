// Package manifest reads HorizontalPodAutoscalers as Kubernetes writes them, of
// autoscaling/v1, v2beta1, v2beta2 and v2, and drafts the autoscalers they mean.
package manifest
