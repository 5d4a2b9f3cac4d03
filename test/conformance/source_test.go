package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/test/conformance/sim"
)

type sourceConfig struct {
	World string `toml:"world"`
	Nonce int    `toml:"nonce"`
}

func (*sourceConfig) SetDefaults()                    {}
func (*sourceConfig) Validate() []settings.FieldError { return nil }
func (c *sourceConfig) Build(string, sources.Env) (sources.Source, error) {
	found, _ := sides.Load(c.World)
	return source{found.(*side)}, nil
}

type source struct{ side *side }

func (s source) Query(ctx context.Context, q sources.Query, at time.Time) (sources.Vector, error) {
	found, err := s.side.query(q.Text, s.side.now())
	if owner := queryForm.FindStringSubmatch(q.Text)[1]; owner != "" {
		time.Sleep(s.side.world.Targets[owner].SourceDelay(s.side.now()).D())
	}
	if errors.Is(err, sim.ErrHang) {
		<-ctx.Done()
		return sources.Vector{}, ctx.Err()
	}
	if err != nil {
		return sources.Vector{}, err
	}
	var vector sources.Vector
	for _, one := range found {
		vector.Series = append(vector.Series, sources.Series{Labels: sources.LabelsOf(one.labels), Value: one.value, At: at})
	}
	return vector, nil
}

type series struct {
	labels map[string]string
	value  float64
}

// queryForm matches the queries: the values of a metric of one autoscaler or of all, and a factor.
var queryForm = regexp.MustCompile(`^w\{(?:a="([^"]*)",)?m="(\d+)"\}(?: \* (\d+))?$`)

func (s *side) query(text string, at sim.Dur) (all []series, err error) {
	parts := queryForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("query %q", text)
	}
	metric, _ := strconv.Atoi(parts[2])
	factor, _ := strconv.ParseFloat(cmp.Or(parts[3], "1"), 64)
	for _, name := range s.world.Names {
		if parts[1] != "" && parts[1] != name {
			continue
		}
		target := s.world.Targets[name]
		values, err := target.Values(at, metric)
		if err != nil && parts[1] != "" {
			return nil, err
		}
		if err != nil {
			continue // other autoscalers of the shared query have series
		}
		kind := ""
		if metrics := target.Metrics(at); metric < len(metrics) {
			kind = metrics[metric].Type
		}
		for _, v := range values {
			labels := map[string]string{"a": name, "m": parts[2]}
			switch kind {
			case "Object":
			case "External":
				labels["s"] = v.ID
			default:
				labels["id"] = v.ID
			}
			all = append(all, series{labels, v.Value * factor})
		}
	}
	return all, nil
}

// servePrometheus serves the instant queries of all scenarios. The first element of the path is a
// key of sides, which identifies the scenario and the program.
func servePrometheus(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close") // an idle connection would keep the virtual time from advancing
	w.Header().Set("Content-Type", "application/json")
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	found, ok := sides.Load(name)
	if !ok {
		http.Error(w, "no such side", http.StatusNotFound)
		return
	}
	side := found.(*side)
	seconds, err := strconv.ParseFloat(r.FormValue("time"), 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	at := side.world.Since(time.UnixMilli(int64(seconds*1000 + 0.5)).Add(-side.step))
	all, err := side.query(r.FormValue("query"), at)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"status":"error","errorType":"unavailable","error":%q}`, err.Error())
		return
	}
	fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[`)
	for i, one := range all {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, `{"metric":{`)
		for j, label := range sortedKeys(one.labels) {
			if j > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, "%q:%q", label, one.labels[label])
		}
		fmt.Fprintf(w, `},"value":[%s,%q]}`, r.FormValue("time"), strconv.FormatFloat(one.value, 'f', -1, 64))
	}
	fmt.Fprint(w, `]}}`)
}
