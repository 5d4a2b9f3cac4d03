package simulation

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/hpad/hpad/daemon/page"
	"github.com/hpad/hpad/simulate"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

type htmlRow struct {
	Label          string
	Cells, Moments []string
}

// HTML writes a result as a single file with a graph, with times in a zone.
func HTML(w io.Writer, result *simulate.Result, priced bool, zone *time.Location) error {
	at, assets := clockOf(result, zone), map[string]string{}
	for _, name := range []string{"uplot.js", "uplot.css", "uplot.LICENSE"} {
		text, err := page.Asset(name)
		if err != nil {
			return fmt.Errorf("read the chart library: %w", err)
		}
		assets[name] = string(text)
	}
	rows, labels := make([]htmlRow, len(result.Rows)), make([]string, len(result.Rows))
	for i := range result.Rows {
		row := &result.Rows[i]
		rows[i], labels[i] = htmlRow{Label: row.Label, Cells: cells(&row.Score, priced)}, row.Label
		for j := range row.Moments {
			rows[i].Moments = append(rows[i].Moments, moment(&row.Moments[j], at))
		}
	}
	return pageTemplate.Execute(w, map[string]any{
		"Name": result.Name, "Assumed": assumed(result, at), "Header": header(priced), "Rows": rows, "Labels": labels, "Data": chart(result),
		"License":    template.HTML("<!--\nuPlot, https://github.com/leeoniya/uPlot\n" + assets["uplot.LICENSE"] + "-->"), //nolint:gosec // hpad's own text
		"ChartStyle": template.CSS(assets["uplot.css"]), "ChartScript": template.JS(assets["uplot.js"]),                   //nolint:gosec // hpad's own files
	})
}

// chart returns the columns of the graph: the times, the demand, and the counts of each row. A point
// that is equal to its neighbors is omitted.
func chart(result *simulate.Result) [][]any {
	columns := make([][]any, 2+len(result.Rows))
	same := func(i, j int) bool {
		for r := range result.Rows {
			if result.Rows[r].Replicas[i] != result.Rows[r].Replicas[j] {
				return false
			}
		}
		return result.Demand[i] == result.Demand[j]
	}
	for i, at := range result.Times {
		if i > 0 && i < len(result.Times)-1 && same(i-1, i) && same(i, i+1) {
			continue
		}
		columns[0] = append(columns[0], at.Unix())
		var demand any
		if result.Demand[i] >= 0 {
			demand = result.Demand[i]
		}
		columns[1] = append(columns[1], demand)
		for r := range result.Rows {
			columns[2+r] = append(columns[2+r], result.Rows[r].Replicas[i])
		}
	}
	return columns
}
