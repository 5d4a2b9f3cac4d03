package contract

import "testing"

// TestTable checks that each case of the suite is in exactly one row of the table.
func TestTable(t *testing.T) {
	rows := map[string]string{}
	for _, row := range Table {
		for _, name := range row.Cases {
			if other, ok := rows[name]; ok {
				t.Errorf("case %q is in rows %q and %q", name, other, row.Situation)
			}
			rows[name] = row.Situation
		}
		if len(row.Cases) == 0 {
			t.Errorf("row %q contains no case", row.Situation)
		}
	}
	for _, c := range Cases[*testing.T]() {
		if rows[c.Name] == "" {
			t.Errorf("case %q is in no row", c.Name)
		}
		delete(rows, c.Name)
	}
	for name, situation := range rows {
		t.Errorf("row %q contains the unknown case %q", situation, name)
	}
}
