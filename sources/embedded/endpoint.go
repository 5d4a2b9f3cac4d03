package embedded

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/hpad/hpad/targets"
)

// endpoint is a URL to scrape, with the labels of its series.
type endpoint struct {
	// key is unique for each combination of URL and labels.
	key string
	url string
	// name is the URL without its query, which may contain a secret.
	name   string
	labels labels.Labels
}

// newEndpoint returns the endpoint at an address, with the labels of set and of s.
func newEndpoint(s *Scrape, address string, set map[string]string) endpoint {
	set[labelJob] = s.Job
	set[labelInstance] = address
	maps.Copy(set, s.Labels)
	return endpointAt(s.Scheme+"://"+address+s.Path, set)
}

func endpointAt(url string, set map[string]string) endpoint {
	lset := labels.FromMap(set)
	name, _, _ := strings.Cut(url, "?")
	return endpoint{key: url + " " + lset.String(), url: url, name: name, labels: lset}
}

func staticEndpoints(s *Scrape) []endpoint {
	endpoints := make([]endpoint, len(s.Addresses))
	for i, address := range s.Addresses {
		endpoints[i] = newEndpoint(s, address, map[string]string{})
	}
	return endpoints
}

func instanceEndpoint(s *Scrape, id string, at targets.Location) (endpoint, error) {
	if len(at.Addresses) == 0 {
		return endpoint{}, fmt.Errorf("instance %q has no address", id)
	}
	port, err := pickPort(s.PortLabel, id, at.Ports)
	if err != nil {
		return endpoint{}, err
	}
	set := make(map[string]string, len(at.Labels)+len(s.Labels)+len(reservedLabels))
	for _, name := range slices.Sorted(maps.Keys(at.Labels)) {
		if value := at.Labels[name]; model.LabelValue(value).IsValid() {
			set[labelName(name)] = value
		}
	}
	set[labelInstanceID] = id
	set[labelFleet] = s.Fleet
	set[labelTarget] = s.Target
	return newEndpoint(s, net.JoinHostPort(at.Addresses[0], strconv.Itoa(port)), set), nil
}

// pickPort returns the port that has the label. If the label is "", it returns the unnamed port
// or the only port.
func pickPort(label, id string, ports targets.Ports) (int, error) {
	if port, found := ports.Find(label); found {
		return port, nil
	}
	known := "it has no ports"
	if len(ports) > 0 {
		known = "its ports are " + strings.Join(ports.Labels(), ", ")
	}
	if label != "" {
		return 0, fmt.Errorf("instance %q has no port %q; %s", id, label, known)
	}
	if len(ports) != 1 {
		return 0, fmt.Errorf("instance %q does not have exactly one port, so port_label is required; %s", id, known)
	}
	return ports[0].Number, nil
}

func labelName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if clean == "" || '0' <= clean[0] && clean[0] <= '9' {
		clean = "_" + clean
	}
	if strings.HasPrefix(clean, model.ReservedLabelPrefix) {
		clean = "label" + clean
	}
	return clean
}

// withEndpointLabels adds the endpoint's labels to a scraped series. A scraped label of the
// same name gets the prefix "exported_", repeatedly if necessary. If honor is set, the scraped label is
// kept instead.
func withEndpointLabels(scraped, own labels.Labels, honor bool) labels.Labels {
	builder := labels.NewBuilder(scraped)
	if honor {
		own.Range(func(label labels.Label) {
			if !scraped.Has(label.Name) {
				builder.Set(label.Name, label.Value)
			}
		})
		return builder.Labels()
	}
	own.Range(func(label labels.Label) { builder.Set(label.Name, label.Value) })
	own.Range(func(label labels.Label) {
		value := scraped.Get(label.Name)
		if value == "" {
			return
		}
		name := model.ExportedLabelPrefix + label.Name
		for builder.Get(name) != "" {
			name = model.ExportedLabelPrefix + name
		}
		builder.Set(name, value)
	})
	return builder.Labels()
}
