package azuretest

import (
	"net/http"
	"strings"
	"time"
)

// serveOperation returns the status of a long-running operation.
func (s *Server) serveOperation(w http.ResponseWriter, _ *http.Request, parts []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.operations[parts[0]]
	if op == nil {
		return &apiError{status: http.StatusNotFound, code: "NotFound", message: "The operation was not found."}
	}
	status := map[string]any{"name": parts[0], "status": "InProgress", "startTime": time.Now()}
	set := s.sets[op.set]
	switch {
	case op.failure != "":
		status["status"] = "Failed"
		status["error"] = map[string]string{"code": op.failure, "message": failureMessage(op.failure)}
	case set == nil || set.state(time.Now()) != "Updating":
		status["status"] = "Succeeded"
	}
	return document(w, status)
}

// serveAutoscale lists the autoscale settings of a resource group or the subscription.
func (s *Server) serveAutoscale(w http.ResponseWriter, _ *http.Request, parts []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings := []any{}
	for _, set := range s.sets {
		if parts[0] != "" && !strings.EqualFold(parts[0], set.Group) {
			continue
		}
		settings = append(settings, map[string]any{
			"name": set.Name + "-autoscale", "location": "westeurope",
			"properties": map[string]any{"enabled": set.Autoscaled, "targetResourceUri": setID(set), "profiles": []any{}},
		})
	}
	return document(w, map[string]any{"value": settings})
}

// serveMemberInterfaces lists the network interfaces of a Uniform set.
func (s *Server) serveMemberInterfaces(w http.ResponseWriter, _ *http.Request, parts []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	set, err := s.found(parts[0], parts[1])
	if err != nil {
		return err
	}
	return document(w, map[string]any{"value": set.interfaces()})
}

// serveInterfaces lists the network interfaces of the Flexible sets in a resource group.
func (s *Server) serveInterfaces(w http.ResponseWriter, _ *http.Request, parts []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []any{}
	for _, set := range s.sets {
		if set.Flexible && strings.EqualFold(set.Group, parts[0]) {
			found = append(found, set.interfaces()...)
		}
	}
	return document(w, map[string]any{"value": found})
}

// interfaces returns two network interfaces per machine; the second one is primary.
func (s *Set) interfaces() []any {
	found := []any{}
	for _, m := range s.Machines {
		for _, primary := range []bool{false, true} {
			address := m.Address()
			if !primary {
				address = strings.Replace(address, "10.1.", "10.2.", 1)
			}
			found = append(found, map[string]any{"properties": map[string]any{
				"primary": primary, "virtualMachine": map[string]string{"id": s.machineID(m)},
				"ipConfigurations": []any{map[string]any{"properties": map[string]any{"primary": true, "privateIPAddress": address}}},
			}})
		}
	}
	return found
}
