package compose

import "github.com/hpad/hpad/policy"

// The reasons for holds and errors.
const (
	// composeUpdateInProgress means that Compose is replacing containers of the service.
	composeUpdateInProgress = "ComposeUpdateInProgress"
	// ServiceStopped means that all containers of the service were stopped, but not by hpad.
	ServiceStopped = "ServiceStopped"
	// DependencyNotReady means that a service in depends_on does not meet its condition.
	DependencyNotReady = "DependencyNotReady"
	// templateUnusable means that a service at 0 replicas cannot be started because an object
	// that a new replica needs is missing.
	templateUnusable = "TemplateUnusable"
	// noTemplate means that the settings needed to start from 0 replicas cannot be stored.
	noTemplate = "NoTemplate"
	// fixedContainerName means that the service has a container_name.
	fixedContainerName = "FixedContainerName"
	// staticHostPort means that the service publishes a single host port.
	staticHostPort = "StaticHostPort"
	// staticIP means that the service has a fixed address.
	staticIP = "StaticIP"
	// sharedNetwork means that the service uses the network of another container.
	sharedNetwork = "SharedNetwork"
	// ServiceNotFound means that the service has no container and hpad has not scaled it to 0, or
	// that its project was removed since.
	ServiceNotFound = "ServiceNotFound"
	// imageNotFound means that the image of the service no longer exists.
	imageNotFound = "ImageNotFound"
	// StartFailed means that a new container could not be created or started.
	StartFailed = "StartFailed"
)

// The conditions of services.
const (
	// obsoleteReplicas means that hpad created replicas with the previous configuration while
	// Compose was updating the service.
	obsoleteReplicas policy.ConditionType = "ObsoleteReplicas"
	// ContainersRestarted means that hpad has restarted failed containers.
	ContainersRestarted policy.ConditionType = "ContainersRestarted"
	// ContainersFailing means that containers have exited on their own or restart repeatedly.
	ContainersFailing policy.ConditionType = "ContainersFailing"
)
